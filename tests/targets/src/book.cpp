// An address book: methods that take std::string by reference, overloads, containers, an exception.
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "driver.h"

class Contact {
 public:
  Contact(std::string first, std::string last, std::string number)
      : firstName_(std::move(first)), lastName_(std::move(last)), number_(std::move(number)) {}
  const std::string& lastName() const { return lastName_; }

 private:
  std::string firstName_, lastName_, number_;
};

class AddressBook {
 public:
  void AddContact(std::string& firstName, std::string& lastName, std::string& number);
  int Find(const std::string& lastName) const;
  int Find(int index) const;
  int Find(std::string_view prefix, bool exact) const;
  size_t CountAll(const std::vector<std::string>& names, const std::map<std::string, int>& ages);
  void Remove(std::optional<int> index, std::unique_ptr<Contact> spare);
  size_t size() const { return contacts_.size(); }

 private:
  std::vector<Contact> contacts_;
  unsigned long additions_ = 0;
};

KEEP void AddressBook::AddContact(std::string& firstName, std::string& lastName, std::string& number) {
  if (contacts_.size() > 100) contacts_.clear();
  contacts_.emplace_back(firstName, lastName, number);
  additions_++;
}

KEEP int AddressBook::Find(const std::string& lastName) const {
  for (size_t i = 0; i < contacts_.size(); i++) {
    if (contacts_[i].lastName() == lastName) return (int)i;
  }
  return -1;
}

KEEP int AddressBook::Find(int index) const {
  if (index < 0) throw std::out_of_range("negative index");
  return index < (int)contacts_.size() ? index : -1;
}

KEEP int AddressBook::Find(std::string_view prefix, bool exact) const { return exact ? 0 : (int)prefix.size(); }

KEEP size_t AddressBook::CountAll(const std::vector<std::string>& names, const std::map<std::string, int>& ages) {
  return names.size() + ages.size();
}

KEEP void AddressBook::Remove(std::optional<int> index, std::unique_ptr<Contact> spare) {
  if (index && spare) contacts_.push_back(*spare);
}

KEEP int try_find(const AddressBook& book, int index) {
  try {
    return book.Find(index);
  } catch (const std::out_of_range&) {
    return -2;
  }
}

static AddressBook book;

static void round_of_calls(int i) {
  std::string first = "Ada", last = "Lovelace-" + std::to_string(i), number(20, '7');
  std::vector<std::string> names = {"a", "bb", last};
  std::map<std::string, int> ages = {{"ada", 36}};
  book.AddContact(first, last, number);
  say("CALL AddressBook::AddContact firstName=%s lastName=%s number=%s\n", first.c_str(), last.c_str(), number.c_str());
  say("CALL AddressBook::Find lastName=%s found=%d\n", last.c_str(), book.Find(last) >= 0);
  say("CALL AddressBook::Find prefix = %d\n", book.Find(std::string_view("Love"), false));
  say("CALL AddressBook::CountAll = %zu\n", book.CountAll(names, ages));
  book.Remove(i, std::make_unique<Contact>("x", "y", "z"));
  say("CALL try_find index=-1 = %d\n", try_find(book, -1));
}

int main(int argc, char** argv) { return drive(argc, argv, round_of_calls); }
